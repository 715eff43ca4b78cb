// Checks of a task in a description, and of the outputs that its results are made of.

import { FormatError, InputError } from "../errors.js";

const wrong = (what, options) => new FormatError(`the task of the compiled program is wrong: ${what}`, options);

export function demand(holds, what) {
    if (!holds) throw wrong(what);
}

// Calls a function that checks a task; any error becomes a FormatError.
export function checking(check) {
    try {
        check();
    } catch (error) {
        throw error instanceof FormatError ? error : wrong(error.message, { cause: error });
    }
}

// Returns the method of a task; `methods` were checked.
export function methodOf({ method }, methods) {
    const found = Object.hasOwn(methods, method) ? methods[method] : null;
    demand(found?.plans, `there is no method ${method}`);
    return found;
}

// Checks that outputs are numbers: results of others would be arbitrary.
export function checkFinite(outputs) {
    for (const { data, dtype } of outputs) {
        if (dtype?.includes("float") && data.some((value) => !Number.isFinite(value))) throw new InputError("the program returned NaN or infinities");
    }
}
