import type { WaitForLogResult } from '../types/processes.js';

/** The number of earlier characters that are searched again with each new piece, for matches over several lines. */
const windowChars = 64 * 1024;

/** Searches a pattern in text that arrives in pieces. The cost does not grow with the text so far. */
export class LogMatcher {
  readonly #pattern: string | RegExp;
  /** The end of the text so far: at least the incomplete line. */
  #text = '';

  constructor(pattern: string | RegExp) {
    // A global or sticky expression would remember where it was.
    this.#pattern =
      typeof pattern === 'string' ? pattern : new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''));
  }

  /** The match that this piece completes, and whether the line of the match is complete. */
  push(piece: string): { result: WaitForLogResult; whole: boolean } | undefined {
    this.#text += piece;
    const found = this.#find(this.#text);
    const keep = Math.max(windowChars, this.#text.length - this.#text.lastIndexOf('\n'));
    if (this.#text.length > 2 * keep) this.#text = this.#text.slice(-keep);
    return found;
  }

  #find(text: string): { result: WaitForLogResult; whole: boolean } | undefined {
    const match = typeof this.#pattern === 'string' ? undefined : text.match(this.#pattern);
    if (typeof this.#pattern === 'string' ? !text.includes(this.#pattern) : !match) return undefined;
    const lines = text.split('\n');
    for (const [i, line] of lines.entries()) {
      const whole = i < lines.length - 1;
      if (typeof this.#pattern === 'string') {
        if (line.includes(this.#pattern)) return { result: { line }, whole };
      } else {
        const inLine = line.match(this.#pattern);
        if (inLine) return { result: { line, match: inLine }, whole };
      }
    }
    if (typeof this.#pattern === 'string') return { result: { line: this.#pattern }, whole: true };
    return { result: { line: match![0], match: match! }, whole: true };
  }
}
