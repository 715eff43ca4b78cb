// Runs cases of suites by their compiled programs, in folders of `base`.
//
// Returns the outputs of each case by step: a number, or the bytes in base64 and the shape; or the text of an error.

async ([base, cases]) => {
    const decode = (text) => Uint8Array.from(atob(text), (one) => one.charCodeAt(0)).buffer;
    const encode = ({ buffer, byteOffset, byteLength }) => {
        let text = "";
        for (const one of new Uint8Array(buffer, byteOffset, byteLength)) text += String.fromCharCode(one);
        return btoa(text);
    };
    const arrays = {
        float32: Float32Array, float64: Float64Array, bfloat16: Float32Array, float16: Uint16Array, int8: Int8Array,
        int16: Int16Array, int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array, bool: Uint8Array,
    };
    const given = ({ dtype, shape, data, number }) => (
        number === undefined ? { data: new arrays[dtype](decode(data)), shape } : number
    );
    const results = [];
    for (const { folder, method, steps } of cases) {
        const found = [];
        const program = await (await import(`${base}${folder}/index.js`)).open();
        try {
            for (const inputs of steps) {
                const outputs = await program.run(method, inputs.map(given));
                found.push(outputs.map((one) => (typeof one === "number" ? [one] : [encode(one.data), one.shape])));
            }
        } catch (error) {
            found.push(`${error.name}: ${error.message}`);
        }
        program.close();
        results.push(found);
    }
    return results;
}
