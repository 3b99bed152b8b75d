// Drawing images on canvases at model resolution; the style sheet scales them without blurring.

/** Draw one image, bytes `[height, width, channels]`. */
export function draw(canvas, bytes, [height, width, channels]) {
  if (canvas.width !== width || canvas.height !== height) {
    canvas.width = width;
    canvas.height = height;
  }
  const image = new ImageData(width, height);
  const out = image.data;
  for (let pixel = 0; pixel < width * height; pixel++) {
    for (let c = 0; c < 3; c++) out[4 * pixel + c] = bytes[channels * pixel + (c % channels)];
    out[4 * pixel + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** Return the n-th of several images in one byte array. */
export function nth(bytes, n, shape) {
  const size = shape[0] * shape[1] * shape[2];
  return bytes.subarray(n * size, (n + 1) * size);
}

export const fromBase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
