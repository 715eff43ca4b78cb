// Places of rows in caches with a slot for each sequence: position, slot, and two zeros.

// The position in a cache of `slots` times `positions` of them, or -1 for padding and places outside of it.
fn position_in(place: vec4<i32>, slots: i32, positions: i32) -> i32 {
    let known = place.y >= 0 && place.y < slots && place.x >= 0 && place.x < positions;
    return select(-1, place.y * positions + place.x, known);
}
