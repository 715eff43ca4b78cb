// Evaluates to a wrapper for asynchronous functions that turns whatever they reject with into an Error.
//
// Python waits for ever for a promise that a browser rejects with an error of a class of its own
// (QuotaExceededError, GPUPipelineError): Pyodide knows Error and DOMException, and loses others.

((work) => async (...given) => {
    try {
        return await work(...given);
    } catch (error) {
        throw Object.assign(new Error(error?.message ?? String(error)), { name: error?.name ?? "Error" });
    }
})
