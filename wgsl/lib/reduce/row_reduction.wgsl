// Reduces rows of items to one value per row, with several threads to a row.
//
// A workgroup of 256 threads holds 256 / LANES rows. Neighbouring threads take neighbouring items
// of one row or, with ROWS_FASTEST, the same item of neighbouring rows: the ones that are adjacent
// in memory. An item is an element or a quad of them.
//
// The shader that uses this has an `alias Reduced` and `fn combine(a: Reduced, b: Reduced) -> Reduced`.

const THREADS = 256u;
override LANES: u32; // a power of two
override ROWS: u32; // THREADS / LANES
override ROWS_FASTEST: bool;
// The fold has two steps, each of about the square root of LANES values: fewer barriers than a tree.
override GROUPS: u32;

var<workgroup> lane_values: array<Reduced, THREADS>;
var<workgroup> group_values: array<Reduced, THREADS>;

struct Place {
    row: u32, // in the whole dispatch; the kernel checks its range
    local: u32, // row in the workgroup
    lane: u32,
}

fn place_of(thread: u32, workgroup: vec3<u32>, workgroups: vec3<u32>) -> Place {
    let first = (workgroup.x + workgroup.y * workgroups.x) * ROWS;
    if (ROWS_FASTEST) {
        return Place(first + thread % ROWS, thread % ROWS, thread / ROWS);
    }
    return Place(first + thread / LANES, thread / LANES, thread % LANES);
}

fn slot_of(row: u32, lane: u32, lanes: u32) -> u32 {
    return select(row * lanes + lane, lane * ROWS + row, ROWS_FASTEST);
}

// The values of a row's lanes combined, in each of its lanes. All threads must get here together.
fn reduce_lanes(value: Reduced, place: Place) -> Reduced {
    if (LANES == 1u) {
        return value;
    }
    lane_values[slot_of(place.local, place.lane, LANES)] = value;
    workgroupBarrier();
    if (place.lane < GROUPS) {
        var group = value;
        for (var lane = place.lane + GROUPS; lane < LANES; lane += GROUPS) {
            group = combine(group, lane_values[slot_of(place.local, lane, LANES)]);
        }
        group_values[slot_of(place.local, place.lane, GROUPS)] = group;
    }
    workgroupBarrier();
    var total = group_values[slot_of(place.local, 0u, GROUPS)];
    for (var lane = 1u; lane < GROUPS; lane++) {
        total = combine(total, group_values[slot_of(place.local, lane, GROUPS)]);
    }
    return total;
}
