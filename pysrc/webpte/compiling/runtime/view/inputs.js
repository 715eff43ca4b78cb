// Inputs by their kind: elements that give a value to `give` each time there is one.

import { canvasOf, make } from "./results.js";

const PAD = 280; // pixels of a pad's sides
const PEN = 2; // in pixels of the model
const PAUSE_MS = 80;

const button = (textContent, onclick) => make("button", { type: "button", textContent, onclick });

// A pad, whose drawing is bright on dark.
function drawingPad({ rule: { size: [rows, columns] } }, give) {
    const pad = make("canvas", { className: "pad", width: PAD, height: Math.round((PAD * rows) / columns), tabIndex: 0 });
    pad.setAttribute("role", "application");
    pad.setAttribute("aria-label", "Drawing pad: draw with the mouse, a pen or a finger; Delete clears");
    const ink = pad.getContext("2d", { willReadFrequently: true });
    const clear = () => {
        ink.fillStyle = "black";
        ink.fillRect(0, 0, pad.width, pad.height);
    };
    clear();
    let [last, due] = [null, 0];
    const place = ({ clientX, clientY }) => {
        const box = pad.getBoundingClientRect();
        return [((clientX - box.left) * pad.width) / box.width, ((clientY - box.top) * pad.height) / box.height];
    };
    const send = () => {
        due = 0;
        give(averaged(ink.getImageData(0, 0, pad.width, pad.height), rows, columns));
    };
    const draw = (event) => {
        const to = place(event);
        Object.assign(ink, { strokeStyle: "white", lineCap: "round", lineJoin: "round", lineWidth: (PEN * pad.width) / columns });
        ink.beginPath();
        ink.moveTo(...(last ?? to));
        ink.lineTo(...to);
        ink.stroke();
        last = to;
        due ||= setTimeout(send, PAUSE_MS);
    };
    pad.onpointerdown = (event) => {
        pad.setPointerCapture(event.pointerId);
        draw(event);
    };
    pad.onpointermove = (event) => { if (last) draw(event); };
    pad.onpointerup = pad.onpointercancel = () => { last = null; };
    pad.onkeydown = ({ key }) => { if (key === "Delete" || key === "Backspace") clear(); };
    return make("div", { className: "drawing" }, pad, button("Clear", clear));
}

// Returns the mean of the pad's pixels in each pixel of the model, with three bytes each.
function averaged({ width, height, data }, rows, columns) {
    const [sums, counts] = [new Float64Array(rows * columns), new Float64Array(rows * columns)];
    for (let y = 0; y < height; y++) {
        for (let x = 0; x < width; x++) {
            const at = Math.floor((y * rows) / height) * columns + Math.floor((x * columns) / width);
            sums[at] += data[4 * (y * width + x)];
            counts[at] += 1;
        }
    }
    return { width: columns, height: rows, data: Uint8Array.from({ length: 3 * rows * columns }, (_, i) => Math.round(sums[Math.floor(i / 3)] / counts[Math.floor(i / 3)])) };
}

const fileField = (label, accept, take) => {
    const field = make("input", { type: "file", accept, onchange: () => field.files[0] && take(field.files[0]) });
    return make("label", { className: "button", textContent: label }, field);
};

function camera(place, give) {
    let stream = null;
    const close = () => {
        for (const track of stream?.getTracks() ?? []) track.stop();
        stream = null;
        place.replaceChildren();
    };
    const open = async () => {
        if (stream) return close();
        try {
            stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
        } catch (error) {
            place.replaceChildren(make("p", { className: "note", textContent: `The camera cannot be used: ${error.message}` }));
            return undefined;
        }
        const video = make("video", { autoplay: true, muted: true, playsInline: true, srcObject: stream });
        const next = async () => {
            if (!stream || !video.isConnected) return close();
            if (video.videoWidth) await give(video);
            return requestAnimationFrame(next);
        };
        place.replaceChildren(video);
        return next();
    };
    return button("Camera", open);
}

function pictureInput(_, give) {
    const place = make("div");
    const show = (file) => {
        place.replaceChildren(image(file, "The input"));
        give(file);
    };
    const box = make("div", { className: "files" }, fileField("Choose a picture", "image/*", show), ...(navigator.mediaDevices ? [camera(place, give)] : []), place);
    box.ondragover = (event) => event.preventDefault();
    box.ondrop = (event) => {
        event.preventDefault();
        const [file] = event.dataTransfer.files;
        if (file) show(file);
    };
    return box;
}

function soundInput(_, give) {
    const place = make("div");
    const use = (file) => {
        const before = place.querySelector("audio");
        if (before) URL.revokeObjectURL(before.src);
        place.replaceChildren(make("audio", { controls: true, src: URL.createObjectURL(file) }));
        give(file);
    };
    let recorder = null;
    const record = button("Record", async () => {
        if (recorder) return recorder.stop();
        try {
            const stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false } });
            const parts = [];
            recorder = new MediaRecorder(stream);
            recorder.ondataavailable = ({ data }) => parts.push(data);
            recorder.onstop = () => {
                for (const track of stream.getTracks()) track.stop();
                recorder = null;
                record.textContent = "Record";
                use(new Blob(parts));
            };
            recorder.start();
            record.textContent = "Stop";
        } catch (error) {
            place.replaceChildren(make("p", { className: "note", textContent: `The microphone cannot be used: ${error.message}` }));
        }
        return undefined;
    });
    return make("div", { className: "files" }, fileField("Choose a sound", "audio/*", use), ...(navigator.mediaDevices ? [record] : []), place);
}

// A message; Enter sends it.
function textInput(_, give) {
    const field = make("textarea", { rows: 3, placeholder: "Ask something", ariaLabel: "Message" });
    const send = () => {
        if (field.value.trim()) give(field.value.trim());
        field.value = "";
    };
    field.onkeydown = (event) => {
        if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
        event.preventDefault();
        send();
    };
    return make("div", { className: "files" }, field, button("Send", send));
}

// A text in each line.
function sentencesInput({ examples = [] }, give) {
    const lines = [...examples, ...SENTENCES.slice(examples.length)];
    const field = make("textarea", { rows: 7, value: lines.join("\n"), ariaLabel: "Texts, one in each line" });
    const send = () => {
        const given = field.value.split("\n").map((line) => line.trim()).filter(Boolean);
        if (given.length) give(given);
    };
    return make("div", { className: "files" }, field, button("Run", send));
}

const SENTENCES = [
    "animals that live with people", "A cat sleeps on the sofa.", "Our shop is open from nine to five.",
    "Two dogs are playing in the garden.", "Wolves hunt in packs.",
];

// Numbers of each input, which start as zeros.
function numbersInput(_, give, { inputs }) {
    const run = () => give(inputs.map(({ dtype, shape }) => {
        if (shape === undefined) return 0;
        const size = shape.reduce((a, b) => a * b, 1);
        return { data: dtype === "int64" ? new BigInt64Array(size) : new ARRAYS[dtype](size), shape };
    }));
    return make("div", {}, make("p", { className: "note", textContent: "Runs with zeros." }), button("Run", run));
}

const ARRAYS = {
    float32: Float32Array, float64: Float64Array, bfloat16: Float32Array, float16: globalThis.Float16Array ?? Uint16Array,
    int8: Int8Array, int16: Int16Array, int32: Int32Array, uint8: Uint8Array, bool: Uint8Array,
};

const INPUTS = { drawing: drawingPad, picture: pictureInput, sound: soundInput, speech: soundInput, spoken: soundInput, text: textInput, sentences: sentencesInput, numbers: numbersInput };

// Returns an element for a task's input. `give(value)` gets each value, and may return a promise, which is awaited before
// the next picture of a camera.
export function makeInput(input, method, give) {
    return INPUTS[input.kind](input, give, method);
}

// Returns an image of a file, whose address is given back once the browser has read it.
function image(file, alt) {
    const shown = make("img", { src: URL.createObjectURL(file), alt });
    shown.onload = shown.onerror = () => URL.revokeObjectURL(shown.src);
    return shown;
}

// Returns an element that shows a picture that was given, for results that are drawn over it.
export function shownPicture(given) {
    if (given instanceof Blob) return image(given, "");
    if (given?.videoWidth) {
        const still = make("canvas", { width: given.videoWidth, height: given.videoHeight });
        still.getContext("2d").drawImage(given, 0, 0);
        return still;
    }
    if (!given?.data) return null;
    const { width, height, data } = given;
    const step = data.length / (width * height);
    const pixels = new Uint8ClampedArray(4 * width * height).map((_, i) => (i % 4 === 3 ? 255 : data[Math.floor(i / 4) * step + (i % 4)]));
    return canvasOf({ width, height, data: pixels });
}
