/* Server-sent events as text: frames end with an empty line; a frame has fields, of which data is JSON here. */

/** One event, with its text as it came. */
export interface Frame {
  text: string;
  data: string;
  id?: string;
}

function parse(text: string): Frame {
  const data: string[] = [];
  let id: string | undefined;
  for (const line of text.split(/\r\n|\r|\n/)) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue; // a comment, or a field without value
    const name = line.slice(0, colon);
    const value = line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (name === 'data') data.push(value);
    else if (name === 'id') id = value;
  }
  return { text, data: data.join('\n'), id };
}

/** Cuts a stream of bytes into frames, wherever its pieces end. */
export class FrameReader {
  readonly #decoder = new TextDecoder();
  #pending = '';
  /** Up to here `pending` holds no end of a frame. */
  #searched = 0;

  /** The frames that are complete with this piece. */
  push(bytes: Uint8Array): Frame[] {
    this.#pending += this.#decoder.decode(bytes, { stream: true });
    const frames: Frame[] = [];
    const end = /\r\n\r\n|\n\n|\r\r/g;
    end.lastIndex = this.#searched;
    let from = 0;
    for (let match = end.exec(this.#pending); match; match = end.exec(this.#pending)) {
      const text = this.#pending.slice(from, match.index);
      from = end.lastIndex;
      if (text) frames.push(parse(text));
    }
    this.#pending = this.#pending.slice(from);
    this.#searched = Math.max(0, this.#pending.length - 3);
    return frames;
  }

  /** The text after the last empty line, if it is an event: some servers omit the final empty line. */
  end(): Frame[] {
    const text = this.#pending + this.#decoder.decode();
    this.#pending = '';
    return text.trim() ? [parse(text)] : [];
  }
}

/** The event of a frame; undefined for comments, `[DONE]` and text that is not JSON. */
export function eventOf<T>(frame: Frame): T | undefined {
  if (!frame.data || frame.data === '[DONE]') return undefined;
  try {
    return JSON.parse(frame.data) as T;
  } catch {
    return undefined;
  }
}
