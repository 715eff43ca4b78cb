// Single elements of any type: element `i` is in word `i / per_word_<type>` of the buffer.

// use lib/elements_f16.wgsl with f16

alias word_f32 = f32;
alias word_i32 = i32;
alias word_bool = u32;
alias word_i8 = u32;
alias word_u8 = u32;

const per_word_f32 = 1u;
const per_word_i32 = 1u;
const per_word_bool = 4u;
const per_word_i8 = 4u;
const per_word_u8 = 4u;

fn pick_f32(word: f32, element: u32) -> f32 { return word; }
fn pick_i32(word: i32, element: u32) -> i32 { return word; }
fn pick_u8(word: u32, element: u32) -> u32 { return (word >> (8u * (element % 4u))) & 0xffu; }
fn pick_bool(word: u32, element: u32) -> u32 { return pick_u8(word, element); }
fn pick_i8(word: u32, element: u32) -> i32 { return i32(pick_u8(word, element) << 24u) >> 24u; }
