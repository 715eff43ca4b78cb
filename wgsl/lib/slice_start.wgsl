// Where a slice begins: a live index, from the end if it is negative, kept inside of the dim.

fn first_index(start: i32, size: i32) -> i32 {
    return clamp(select(start, start + size, start < 0), 0, size - 1);
}
