// <pte-model src="./digits/">: an element with the input of a compiled program, and its results.
//
// It opens the program when it is connected. Events: "ready" when it is open, "answer" with the results in `detail`,
// "failure" with the error in `detail`. Methods: answer(given), which resolves to the results and shows them.

import { makeInput, shownPicture } from "./inputs.js";
import { drawResults, make } from "./results.js";

export { drawResults } from "./results.js";

const STYLE = `
:host { display: block; font: 16px/1.45 system-ui, sans-serif; color-scheme: light dark; --accent: light-dark(#0b7667, #46c9b3); }
.model { display: grid; gap: 20px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 300px), 1fr)); align-items: start; }
figure, p, ol, ul { margin: 0; padding: 0; }
.results { display: grid; gap: 16px; }
.note { color: light-dark(#5b6670, #a3adb6); font-size: 14px; }
.error { color: light-dark(#a3231b, #ff9d94); }
.drawing, .files { display: grid; gap: 10px; justify-items: start; }
.pad { touch-action: none; border-radius: 10px; max-width: 100%; cursor: crosshair; }
button, .button { font: inherit; padding: 6px 14px; border: 1px solid currentColor; border-radius: 8px; background: none; color: inherit; cursor: pointer; }
.button { position: relative; } .button input { position: absolute; inset: 0; opacity: 0; width: 100%; cursor: pointer; }
textarea { font: inherit; width: 100%; box-sizing: border-box; padding: 8px; border-radius: 8px; }
img, video, canvas, audio { max-width: 100%; border-radius: 10px; } .layers { display: grid; } .layers > * { grid-area: 1 / 1; width: 100%; }
.largest { list-style: none; display: grid; gap: 8px; } .largest li { display: grid; grid-template-columns: auto 1fr auto; gap: 2px 10px; }
.largest li .label-name { grid-column: 2; overflow-wrap: anywhere; } .largest li .bar { grid-column: 1 / -1; height: 6px; border-radius: 3px; background: light-dark(#dfe5e8, #303a42); }
.bar span { display: block; height: 100%; border-radius: 3px; background: var(--accent); } .answered li:first-child .label-name { font-size: 1.5em; font-weight: 650; }
.number { font-variant-numeric: tabular-nums; } .legend { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; margin-top: 8px; }
.mark { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px; }
.box rect { stroke: var(--accent); } .box text { fill: #fff; stroke: #000; stroke-width: 0.18em; paint-order: stroke; font-weight: 650; }
.chart { width: 100%; height: 200px; } .line { stroke: var(--accent); stroke-width: 1.6; } .said { overflow-wrap: anywhere; white-space: pre-wrap; }
`;

let sheet = null;

function styleSheet() {
    const made = new CSSStyleSheet();
    made.replaceSync(STYLE);
    return made;
}

const Base = globalThis.HTMLElement ?? class {};

export class PteModel extends Base {
    static observedAttributes = ["src"];
    #program = null;
    #loading = null;
    #latest = 0; // number of the last call
    #messages = [];
    #stop = null;
    #ended = Promise.resolve(); // once the last message's answer has ended
    #input = null;
    #output = null;
    #status = null;

    connectedCallback() {
        if (this.shadowRoot) return this.#open();
        const root = this.attachShadow({ mode: "open" });
        this.#input = make("div", { className: "input" });
        this.#output = make("div", { className: "output" });
        this.#output.setAttribute("aria-live", "polite");
        this.#status = make("p", { className: "note" });
        this.#status.setAttribute("role", "status");
        root.adoptedStyleSheets = [sheet ??= styleSheet()]; // which no content policy forbids
        root.append(make("div", { className: "model" },
            make("div", {}, this.#input, this.#status), this.#output));
        return this.#open();
    }

    disconnectedCallback() {
        queueMicrotask(() => { if (!this.isConnected) this.#close(); }); // else it was moved
    }

    attributeChangedCallback() {
        if (!this.isConnected || !this.shadowRoot) return;
        this.#close();
        this.#open();
    }

    // The opened program, once "ready" was sent.
    get program() {
        return this.#program;
    }

    #close() {
        this.#loading = null;
        this.#latest++; // the results that are under way are not shown
        this.#stop?.abort();
        this.#messages = [];
        this.#program?.close();
        this.#program = null;
        this.#input.replaceChildren();
        this.#output.replaceChildren();
    }

    #fail(error) {
        this.#status.className = "note error";
        this.#status.textContent = [error.message, error.advice].filter(Boolean).join(". ");
        this.dispatchEvent(new CustomEvent("failure", { detail: error }));
    }

    async #open() {
        if (this.#loading) return;
        const mine = this.#loading = {};
        const base = new URL(`${this.getAttribute("src") ?? "."}/`.replace(/\/+$/, "/"), document.baseURI);
        this.#status.className = "note";
        this.#status.textContent = "Loading …";
        try {
            const { open } = await import(new URL("index.js", base).href);
            const program = await open({ onProgress: ({ stage, done, total }) => {
                if (this.#loading === mine) this.#status.textContent = `${stage} ${total ? Math.round((100 * done) / total) : 0} %`;
            } });
            if (this.#loading !== mine) return program.close();
            this.#program = program;
            this.#show(program);
        } catch (error) {
            if (this.#loading === mine) this.#fail(error);
        }
    }

    #show(program) {
        const { task } = program;
        this.#status.textContent = task?.about ?? "";
        if (task) this.#input.append(makeInput(task.input, program.methods[task.method], (given) => this.#take(given).catch(() => {})));
        this.dispatchEvent(new CustomEvent("ready", { detail: program }));
    }

    // Answers an input of the element: of texts as a message of a conversation, if the model is one for chats. A newer
    // message ends the answer that is under way, and is answered once that has ended.
    async #take(given) {
        if (this.#program.task.input.kind !== "text") return this.answer(given);
        this.#stop?.abort();
        const { signal } = this.#stop = new AbortController();
        const turn = this.#ended.then(() => (signal.aborted ? undefined : this.#tell(given, signal)));
        this.#ended = turn.catch(() => {});
        return turn;
    }

    async #tell(given, signal) {
        const chats = Boolean(this.#program.task.input.config);
        const messages = [...this.#messages, { role: "user", content: given }];
        const [{ text }] = await this.answer(chats ? messages : given, { signal, maxNewTokens: 256 });
        if (!signal.aborted) this.#messages = [...messages, { role: "assistant", content: text }];
    }

    // Shows the results for an input, and returns them. Of overlapping calls the last is shown.
    async answer(given, options) {
        const number = ++this.#latest;
        const isLatest = () => number === this.#latest;
        const show = (results) => {
            if (isLatest()) this.#output.replaceChildren(drawResults(results, { input: () => shownPicture(given) }));
        };
        const onText = (text) => show([{ kind: "text", text }]);
        try {
            if (!this.#program) throw new Error("The program is not open yet. Wait for the event \"ready\"");
            const results = await this.#program.answer(given, { onText, ...options });
            show(results);
            if (isLatest()) this.dispatchEvent(new CustomEvent("answer", { detail: results }));
            return results;
        } catch (error) {
            if (isLatest() && !options?.signal?.aborted) this.#fail(error);
            throw error;
        }
    }
}

globalThis.customElements?.get("pte-model") ?? globalThis.customElements?.define("pte-model", PteModel);
