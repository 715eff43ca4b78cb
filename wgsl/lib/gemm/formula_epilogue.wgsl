// An epilogue by formula: f(x, y), x being alpha * sums + beta * addend, and y the residual. Goes with
// lib/gemm/gemm.wgsl and lib/math.wgsl; the kernel declares `residual`, an array of Stored, and a, b and c of the
// formula in `params`.

override RESIDUAL: bool; // else y is 0

alias Vec = Quad;

fn epilogue(x: Vec, y: Vec, a: f32, b: f32, c: f32) -> Vec { return ${FORMULA}; }

// The output at a place, of alpha * sum + beta * addend there.
fn apply_epilogue(sum: Number, at: u32) -> Number {
    var y = Number();
    if (RESIDUAL) {
        y = Number(residual[at]);
    }
    return epilogue(Vec(sum), Vec(y), params.a, params.b, params.c).x;
}
