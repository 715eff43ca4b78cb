// Windows into Python's memory: bytes of an array, seen from JavaScript again and again.
//
// Asking Python for an array's bytes is a crossing of its own, so whoever needs them with every call
// asks once. Evaluates to a function of a NumPy array of bytes that gives such a window; `close` it.

((array) => {
    const owner = array.copy(); // the one that we are given is gone when the call ends
    let view = owner.getBuffer("u8");
    return {
        // As they are now. When Python's memory grows, all that was seen of it so far comes up empty.
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
