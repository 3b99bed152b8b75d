// Requests to the server, their errors, and a queue that keeps only the newest request.

export class ServerError extends Error {}

async function request(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new ServerError("The explorer is not responding; check whether it is still running in the terminal.");
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  const message = body.error ?? "Unknown error";
  throw new ServerError(message[0].toUpperCase() + message.slice(1).replace(/\.?$/, "."));
}

const post = (path, body) => request(path, { method: "POST", body });
const json = async (answer) => (await answer).json();

export const getModels = () => json(request("/models"));
export const getModel = (place) => json(request(`/models/${place}`));
export const getActivity = (place) => json(request(`/models/${place}/activity`));
export const getImage = (place, number) => json(request(`/models/${place}/images/${number}`));
export const saveNames = (place, names) => json(post(`/models/${place}/names`, JSON.stringify({ names })));
export const encodeFile = (place, file) => json(post(`/models/${place}/encode`, file));

/** Decode codes; return the bytes of the images and the server's time in milliseconds. */
export async function decode(place, codes) {
  const answer = await post(`/models/${place}/decode`, JSON.stringify({ codes }));
  const spent = Number(/dur=([\d.]+)/.exec(answer.headers.get("Server-Timing") ?? "")?.[1]);
  return { bytes: new Uint8Array(await answer.arrayBuffer()), spent };
}

export async function drawPicture(place, code) {
  const answer = await post(`/models/${place}/picture`, JSON.stringify({ codes: [code] }));
  return answer.blob();
}

/** Runs one task at a time; of the tasks submitted while it is busy, only the newest is run. */
export class Newest {
  #work;
  #next = null;
  #busy = false;

  constructor(work) {
    this.#work = work;
  }

  async submit(value) {
    this.#next = { value };
    if (this.#busy) return;
    this.#busy = true;
    try {
      while (this.#next) {
        const { value: newest } = this.#next;
        this.#next = null;
        await this.#work(newest);
      }
    } finally {
      this.#busy = false;
    }
  }
}
