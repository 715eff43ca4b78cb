// Pictures as a program takes them, prepared by the rule of its description: tasks/vision/scaling/rule.py.

import { InputError } from "../errors.js";
import { placeOf, resized, scaledSize } from "./resample.js";

const SOURCES = ["HTMLImageElement", "HTMLVideoElement", "HTMLCanvasElement", "OffscreenCanvas", "ImageBitmap", "VideoFrame"];

const isA = (value, name) => globalThis[name] && value instanceof globalThis[name];

const withoutAlpha = ({ width, height, data }) => {
    if (data.length === width * height * 3) return { width, height, data };
    const made = new Uint8Array(width * height * 3);
    for (let i = 0; i < width * height; i++) {
        for (let plane = 0; plane < 3; plane++) made[3 * i + plane] = data[4 * i + plane];
    }
    return { width, height, data: made };
};

async function fetched(address) {
    const response = await fetch(address).catch((error) => { throw new InputError(`${address}: ${error.message}`, { cause: error }); });
    if (!response.ok) throw new InputError(`${address}: the server answered ${response.status}`);
    return response.blob();
}

// Returns a picture as { width, height, data }, with three bytes for each pixel.
//
// source  the address of a picture, its file (a Blob), an element with a picture or a video, a canvas, an ImageBitmap, a
//         VideoFrame, or pixels { width, height, data } with three or four bytes each, such as ImageData
export async function pixelsOf(source) {
    if (source?.data && source.width > 0 && source.height > 0) {
        const { width, height, data } = source;
        if ([3, 4].includes(data.length / (width * height))) return withoutAlpha({ width, height, data });
    }
    let given = source;
    if (typeof given === "string" || given instanceof URL) given = await fetched(given);
    if (!(given instanceof Blob) && !SOURCES.some((name) => isA(given, name))) {
        throw new InputError("a picture is an address, a Blob, an element, a canvas, an ImageBitmap, a VideoFrame, or ImageData");
    }
    let bitmap;
    try {
        // The colours of the file are kept, because models were trained with them.
        bitmap = await createImageBitmap(given, { colorSpaceConversion: "none" });
    } catch (error) {
        throw new InputError(`the browser cannot read the picture: ${error.message}`, { cause: error });
    }
    const { width, height } = bitmap;
    const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    context.drawImage(bitmap, 0, 0);
    bitmap.close();
    return withoutAlpha({ width, height, data: context.getImageData(0, 0, width, height).data });
}

// Returns the float of each byte, for a channel.
function coloursOf({ scale, mean, std }, channel) {
    const of = (list) => list[list.length === 1 ? 0 : channel];
    return Float32Array.from({ length: 256 }, (_, byte) => (
        Math.fround(Math.fround(byte * scale) - Math.fround(of(mean))) / Math.fround(of(std))
    ));
}

// Returns floats of a picture, as a rule says: { values, shape: [3, height, width] }. `part`: another size of the input.
export function prepared(picture, rule) {
    const [rows, columns] = scaledSize(rule, picture.height, picture.width);
    const { data } = resized(picture, rows, columns, rule.resample);
    const [height, width] = rule.part ?? [rows, columns];
    const [top, left] = placeOf(rule, [rows, columns]);
    const values = new Float32Array(3 * height * width);
    for (let plane = 0; plane < 3; plane++) {
        const colours = coloursOf(rule, plane);
        const outside = rule.empty ? 0 : colours[0];
        for (let y = 0; y < height; y++) {
            for (let x = 0; x < width; x++) {
                const [row, column] = [y + top, x + left];
                const isInside = row >= 0 && row < rows && column >= 0 && column < columns;
                values[(plane * height + y) * width + x] = isInside ? colours[data[3 * (row * columns + column) + plane]] : outside;
            }
        }
    }
    return { values, shape: [3, height, width] };
}
