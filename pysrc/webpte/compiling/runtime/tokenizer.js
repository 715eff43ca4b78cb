// The tokenizer of a compiled program, by the library that the folder has, or the page gives.
//
// The library is the module of @huggingface/tokenizers.

import { SourceError } from "./errors.js";
import { fetched } from "./program.js";
import { demand } from "./task/checks.js";
import makeTokenizer from "../../llm/text/tokenizers.js";

export async function libraryAt(url) {
    try {
        return await import(url.href);
    } catch (error) {
        throw new SourceError(`${url} is no library for texts: compile with serve.py, which adds it (${error.message})`, { cause: error });
    }
}

const isFile = (name) => typeof name === "string" && /^[\w-][\w.-]*$/.test(name);

// Checks the files of the tokenizer in a task's input.
export function checkFiles({ tokenizer, config }) {
    demand(isFile(tokenizer) && (config === null || isFile(config)), "its texts have no tokenizer");
}

// Opens the tokenizer of a program's folder: { tokenizer, config, text }, with the content of tokenizer_config.json, and
// the text of tokenizer.json.
export async function openTokenizer(base, files, library) {
    const at = (name) => new URL(name, base);
    const [module, text, configText] = await Promise.all([
        library ?? libraryAt(at("tokenizers.js")), fetched(at(files.tokenizer), "text"),
        files.config ? fetched(at(files.config), "text") : "{}",
    ]);
    try {
        return { tokenizer: makeTokenizer(module, text, configText), config: JSON.parse(configText), text };
    } catch (error) {
        throw new SourceError(`${files.tokenizer} is not a tokenizer: ${error.message}`, { cause: error });
    }
}

// Returns a function that calls `open` the first time, and again after a failure; then it returns the same.
export function kept(open) {
    let opening = null;
    return async (...given) => {
        opening ??= open(...given);
        try {
            return await opening;
        } catch (error) {
            opening = null;
            throw error;
        }
    };
}
