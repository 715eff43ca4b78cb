// A lasting view of a NumPy array's bytes in Python's WASM heap.
//
// Getting an array's buffer crosses to Python, so a plan that needs the bytes in every run gets it once.
// Evaluates to `makeHeapView`, a function of a NumPy array of bytes. Call the view's `close` at the end.

((array) => {
    const owner = array.copy(); // Pyodide destroys the argument's proxy when the call returns
    let view = owner.getBuffer("u8");
    return {
        // The current bytes. When the WASM heap grows, every older view of it becomes empty and is renewed.
        bytes() {
            if (!view.data.byteLength) {
                view.release();
                view = owner.getBuffer("u8");
            }
            return view.data;
        },

        close() {
            view.release();
            owner.destroy();
        },
    };
})
