import type { WaitForLogResult } from '../types/processes.js';

/** How much of what was printed before is looked at together with what comes new, for matches over several lines. */
const windowChars = 64 * 1024;

/** Looks for a pattern in text that comes in pieces, at a cost that does not grow with what came before. */
export class LogMatcher {
  readonly #pattern: string | RegExp;
  /** The end of what came: at least the line that is not complete. */
  #text = '';

  constructor(pattern: string | RegExp) {
    // A global or sticky expression would remember where it was.
    this.#pattern =
      typeof pattern === 'string' ? pattern : new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''));
  }

  /** What matches with this piece, and whether the line of the match is whole. */
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
