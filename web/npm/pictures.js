// Pictures of a page as pixels: elements, canvases, bitmaps and frames of videos.

const SIZES = {
  HTMLImageElement: ({ naturalWidth, naturalHeight }) => [naturalWidth, naturalHeight],
  HTMLVideoElement: ({ videoWidth, videoHeight }) => [videoWidth, videoHeight],
  VideoFrame: ({ displayWidth, displayHeight }) => [displayWidth, displayHeight],
  HTMLCanvasElement: ({ width, height }) => [width, height],
  OffscreenCanvas: ({ width, height }) => [width, height],
  ImageBitmap: ({ width, height }) => [width, height],
  ImageData: ({ width, height }) => [width, height],
};

// Returns {data, shape} with the bytes (height, width, 4) of a picture; null for what is none.
export function pixelsOf(value) {
  const kind = Object.keys(SIZES).find((name) => globalThis[name] && value instanceof globalThis[name]);
  if (!kind) return null;
  const [width, height] = SIZES[kind](value);
  const shape = [height, width, 4];
  if (kind === "ImageData") return { data: value.data, shape };
  if (!width || !height) return { data: new Uint8Array(), shape }; // nothing is loaded yet: webpte refuses it
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.drawImage(value, 0, 0, width, height);
  return { data: context.getImageData(0, 0, width, height).data, shape };
}
