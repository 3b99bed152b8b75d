// Talking to the server: requests, their errors as one sentence, and the newest wish only.

export class ServerError extends Error {}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new ServerError("The explorer does not answer; it may have been ended in its terminal.");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  const sentence = said.error ?? "Something went wrong";
  throw new ServerError(sentence[0].toUpperCase() + sentence.slice(1).replace(/\.?$/, "."));
}

const post = (path, body) => ask(path, { method: "POST", body });
const json = async (answer) => (await answer).json();

export const getModels = () => json(ask("/models"));
export const getModel = (place) => json(ask(`/models/${place}`));
export const getImage = (place, number) => json(ask(`/models/${place}/images/${number}`));
export const encodeFile = (place, file) => json(post(`/models/${place}/encode`, file));

/** The bytes of decoded images, one after the other, and the server's own milliseconds. */
export async function decode(place, codes) {
  const answer = await post(`/models/${place}/decode`, JSON.stringify({ codes }));
  const spent = Number(/dur=([\d.]+)/.exec(answer.headers.get("Server-Timing") ?? "")?.[1]);
  return { bytes: new Uint8Array(await answer.arrayBuffer()), spent };
}

export async function drawPicture(place, code) {
  const answer = await post(`/models/${place}/picture`, JSON.stringify({ codes: [code] }));
  return answer.blob();
}

/** Does one thing at a time; of all that is asked for meanwhile, only the last is done. */
export class Newest {
  #work;
  #next = null;
  #busy = false;

  constructor(work) {
    this.#work = work;
  }

  async ask(value) {
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
