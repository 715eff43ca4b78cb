// Texts of a language model: its tokenizer and its chat template, by the libraries that the folder has, or the page gives.
//
// The libraries are the modules of @huggingface/tokenizers and @huggingface/jinja.

import { InputError } from "./errors.js";
import { checkFiles, kept, libraryAt, openTokenizer } from "./tokenizer.js";

const UNFINISHED = "\uFFFD"; // of a letter whose last bytes are still to come

const templateOf = ({ chat_template: found }) => (Array.isArray(found) ? found.find(({ name }) => name === "default")?.template : found);

// Opens the tokenizer of a program's folder. `files`: { tokenizer, config }; `libraries`: { tokenizers, jinja }.
async function openText(base, files, libraries = {}) {
    const { tokenizer, config } = await openTokenizer(base, files, libraries.tokenizers);
    const source = templateOf(config);
    const { Template } = source ? libraries.jinja ?? await libraryAt(new URL("jinja.js", base)) : {};
    const special = Object.fromEntries(Object.entries(config).filter(([name]) => name.endsWith("_token"))
        .map(([name, token]) => [name, token?.content ?? token]));
    return new Texts(tokenizer, source ? new Template(source) : null, special);
}

// Returns the task of a language model that takes and returns texts.
export function openTask(program, { task: { input } }, base) {
    checkFiles(input);
    const opened = kept((libraries) => openText(base, input, libraries));
    // Options are those of `generate`, and `libraries`: { tokenizers, jinja }, modules in place of those in the folder.
    async function* write(given, { libraries, onText: _, ...options } = {}) {
        const texts = await opened(libraries);
        yield* texts.pieces(program.generate(texts.encode(given), options));
    }
    async function answer(given, options) {
        let text = "";
        for await (const piece of write(given, options)) {
            text += piece;
            options?.onText?.(text);
        }
        return [{ kind: "text", text }];
    }
    return { write, answer };
}

class Texts {
    #tokenizer;
    #template;
    #special;

    constructor(tokenizer, template, special) {
        Object.assign(this, { hasTemplate: Boolean(template) });
        this.#tokenizer = tokenizer;
        this.#template = template;
        this.#special = special;
    }

    // Returns the tokens of a text, or of messages [{ role, content }], which the chat template puts together.
    encode(given) {
        if (typeof given === "string") return JSON.parse(this.#tokenizer.encode(given, true));
        if (!Array.isArray(given) || !given.every((one) => typeof one?.role === "string" && typeof one.content === "string")) {
            throw new InputError("a prompt is a text, or messages [{ role, content }]");
        }
        if (!this.#template) throw new InputError("the model has no chat template: give a text");
        let text;
        try {
            text = this.#template.render({ messages: given, add_generation_prompt: true, ...this.#special });
        } catch (error) {
            throw new InputError(`the chat template does not take these messages: ${error.message}`, { cause: error });
        }
        return JSON.parse(this.#tokenizer.encode(text, false));
    }

    decode(tokens) {
        return this.#tokenizer.decode(JSON.stringify([...tokens]));
    }

    // Yields the text of tokens in pieces, as soon as each is complete.
    async *pieces(tokens) {
        const all = [];
        let told = 0;
        for await (const token of tokens) {
            all.push(token);
            const text = this.decode(all);
            if (text.endsWith(UNFINISHED) || text.length <= told) continue;
            yield text.slice(told);
            told = text.length;
        }
        const text = this.decode(all);
        if (text.length > told) yield text.slice(told);
    }
}
