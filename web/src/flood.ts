/**
 * Output on its way to a terminal. A page draws less than a program can print, and a terminal keeps SCROLLBACK lines: what lies further
 * back than that when its turn comes is left out, if it is plain text. Text with escapes is always drawn, because it may change colours, modes
 * or the screen. After plain text the drawing rests, REST times as long as it took: the rest of the page and the box need the processor too,
 * and what comes meanwhile is mostly left out. Every byte is acknowledged once it is drawn or left out, so that the box sends more.
 */
export const SCROLLBACK = 10_000;
/** What the box may send before it is acknowledged. */
export const WINDOW = 2 << 20;
const ACK = WINDOW / 16, AT_ONCE = 256 << 10, REST = 4, REST_MIN = 5, REST_MAX = 250, SEQUENCE = 256, ESC = 0x1b, LF = 0x0a;

interface Piece { data: Uint8Array; lines: number; plain: boolean }

function linesOf(data: Uint8Array): number {
  let n = 0;
  for (let i = 0; i < data.length; i++) if (data[i] === LF) n++;
  return n;
}

export class Flood {
  private queue: Piece[] = [];
  private lines = 0;
  private drawing = 0;
  private done = 0;
  private open = false; // an escape sequence may go on in the next piece
  private began = 0; // the drawing
  private resting: ReturnType<typeof setTimeout> | undefined;

  constructor(private draw: (data: Uint8Array, drawn: () => void) => void, private acknowledge: (bytes: number) => void, private rows: () => number) {}

  add(data: Uint8Array): void {
    const piece = { data, lines: linesOf(data), plain: !data.includes(ESC) && !this.open };
    this.open = data.subarray(-SEQUENCE).includes(ESC);
    this.queue.push(piece);
    this.lines += piece.lines;
    this.leaveOut();
    if (!piece.plain) this.wake();
    this.next();
  }

  /** The connection is cut: the next one begins with the scroll-back. */
  clear(): void {
    this.queue = [];
    this.lines = 0;
    this.wake();
  }

  private leaveOut(): void {
    while (this.queue.length > 1 && this.queue[0]!.plain && this.lines - this.queue[0]!.lines > SCROLLBACK + this.rows()) this.finished(this.take().data.length);
  }

  private take(): Piece {
    const piece = this.queue.shift()!;
    this.lines -= piece.lines;
    return piece;
  }

  private next(): void {
    while (this.queue.length && this.drawing < AT_ONCE && this.resting === undefined) {
      const { data } = this.take();
      if (!this.drawing) this.began = performance.now();
      this.drawing += data.length;
      this.draw(data, () => {
        this.drawing -= data.length;
        this.finished(data.length);
        if (!this.drawing) this.rest();
        this.next();
      });
    }
  }

  private rest(): void {
    const ms = REST * (performance.now() - this.began);
    if (ms < REST_MIN || this.queue.some((piece) => !piece.plain)) return;
    this.resting = setTimeout(() => { this.wake(); this.next(); }, Math.min(ms, REST_MAX));
  }

  private wake(): void {
    clearTimeout(this.resting);
    this.resting = undefined;
  }

  private finished(bytes: number): void {
    this.done += bytes;
    if (this.done < ACK) return;
    this.acknowledge(this.done);
    this.done = 0;
  }
}
