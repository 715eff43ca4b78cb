// The begin of a slice: a live index, from the end if it is negative, clamped to the dim.

fn first_index(start: i32, size: i32) -> i32 {
    return clamp(select(start, start + size, start < 0), 0, size - 1);
}
