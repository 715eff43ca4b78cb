// Sounds for inputs: the browser decodes files, mixes them to one channel and resamples them; recordings of
// the microphone are files, too.

import { button, letGo, make, openDevice, placeOf, tellProblem } from "./device.js";

const MOST_SECONDS = 60; // of a recording
const PART_MS = 200; // of a recording: as often it says what it has
// What helps in a call, a model has not been trained on.
const PLAIN = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };

// One channel of the file, `rate` samples in each of at most `longest` seconds. All of it is done by the
// browser beside this thread.
export const decodeSound = async (file, rate, longest) => {
  let sound;
  try {
    sound = await new OfflineAudioContext(1, 1, rate).decodeAudioData(await file.arrayBuffer());
  } catch (error) {
    throw new Error(`the browser cannot read this sound (${error.message})`);
  }
  const count = Math.max(1, Math.min(sound.length, Math.round(longest * rate)));
  const mixer = new OfflineAudioContext(1, count, rate);
  const source = new AudioBufferSourceNode(mixer, { buffer: sound });
  source.connect(mixer.destination);
  source.start();
  return (await mixer.startRendering()).getChannelData(0);
};

const showLevel = (stream, meter) => {
  const context = new AudioContext();
  const analyser = new AnalyserNode(context, { fftSize: 4096 });
  context.createMediaStreamSource(stream).connect(analyser);
  const wave = new Float32Array(analyser.fftSize);
  const draw = () => {
    if (!meter.isConnected) return context.close();
    analyser.getFloatTimeDomainData(wave);
    meter.value = Math.min(1, Math.max(...wave.map(Math.abs), 0.9 * meter.value)); // falls slowly, to stay visible
    return setTimeout(draw, 60);
  };
  draw();
};

// `tell(element, more)` sends an act to Python.
const openRecorder = async (control, tell) => {
  const place = placeOf(control);
  if (!place) return;
  const stream = await openDevice(place, "microphone", { audio: PLAIN });
  if (!stream) return;
  const most = Math.min(MOST_SECONDS, Number(control.dataset.longest) || MOST_SECONDS);
  const parts = [];
  let wanted = true;
  const recorder = new MediaRecorder(stream);
  const end = () => {
    if (recorder.state !== "inactive") recorder.stop();
    letGo(stream);
  };
  recorder.ondataavailable = ({ data }) => {
    parts.push(data);
    if (!data.size || !stop.disabled) return;
    stop.disabled = false; // now there is something to use
    if ([control, document.body].includes(document.activeElement)) stop.focus();
  };
  recorder.onerror = ({ error }) => {
    wanted = false;
    end();
    tellProblem(place, "microphone", error);
  };
  recorder.onstop = () => {
    if (!wanted) return;
    place.replaceChildren();
    const file = new File(parts, "recording.webm", { type: recorder.mimeType });
    const { input, view } = control.dataset;
    tell({ dataset: { act: view ? `${view}:npy` : "npy", input } }, { files: [file] });
  };
  const meter = make("meter", { min: 0, max: 1, value: 0 });
  meter.setAttribute("aria-label", "Loudness");
  const told = make("p", { className: "note" });
  const stop = button("Stop and use", end, "primary");
  stop.disabled = true;
  const cancel = button("Cancel", () => {
    wanted = false;
    end();
    place.replaceChildren();
  });
  place.replaceChildren(told, meter, make("div", { className: "controls" }, stop, cancel));
  recorder.start(PART_MS);
  showLevel(stream, meter);
  const began = performance.now();
  const tick = () => {
    const seconds = (performance.now() - began) / 1000;
    told.textContent = `Recording: ${seconds.toFixed(1)} of at most ${most.toFixed(1)} s`;
    if (recorder.state === "inactive" || !told.isConnected) return;
    if (seconds >= most) end();
    else setTimeout(tick, 100);
  };
  tick();
};

// One sound at a time: `end` stops the sound of an input.
let playing = { input: null, end: () => {} };
const playButton = (input) => document.querySelector(`[data-device=play][data-input="${input}"]`);

// Plays samples, the bytes of floats, of an input; its button stops them.
export const playSound = ({ input, samples, rate }) => {
  playing.end();
  const context = new AudioContext();
  const floats = new Float32Array(samples.slice().buffer);
  const buffer = new AudioBuffer({ length: Math.max(1, floats.length), sampleRate: rate });
  buffer.copyToChannel(floats, 0);
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(context.destination);
  const end = () => {
    if (playing.end !== end) return;
    playing = { input: null, end: () => {} };
    context.close();
    if (playButton(input)) playButton(input).textContent = "Play";
  };
  playing = { input: String(input), end };
  source.onended = end;
  source.start();
  if (playButton(input)) playButton(input).textContent = "Stop";
};

export const watchRecorders = (tell) => {
  addEventListener("click", (event) => {
    const control = event.target.closest?.("[data-device=record], [data-device=play]");
    if (!control) return;
    const { device, input } = control.dataset;
    if (device === "record") openRecorder(control, tell);
    else if (playing.input === input) playing.end();
    else tell({ dataset: { act: "play", input } });
  });
};
