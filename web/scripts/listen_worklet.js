// Runs on the audio thread: passes the samples of the microphone on, in blocks.

const BLOCK = 1024; // samples

class Listener extends AudioWorkletProcessor {
  constructor() {
    super();
    this.block = new Float32Array(BLOCK);
    this.filled = 0;
  }

  process([[channel]]) {
    for (const sample of channel ?? []) {
      this.block[this.filled++] = sample;
      if (this.filled < BLOCK) continue;
      this.port.postMessage(this.block, [this.block.buffer]);
      this.block = new Float32Array(BLOCK);
      this.filled = 0;
    }
    return true;
  }
}

registerProcessor("listener", Listener);
