/** A text as a QR code (loaded when it is first asked for). */
import { useEffect, useState } from 'preact/hooks';

export function Qr(p: { text: string }) {
  const [cells, setCells] = useState<boolean[][]>();
  useEffect(() => {
    import('qrcode-generator').then(({ default: make }) => {
      const qr = make(0, 'M');
      qr.addData(p.text);
      qr.make();
      const n = qr.getModuleCount();
      setCells(Array.from({ length: n }, (_, y) => Array.from({ length: n }, (__, x) => qr.isDark(y, x))));
    });
  }, [p.text]);
  if (!cells) return null;
  const n = cells.length + 8;
  return <svg class="qr" role="img" aria-label={`QR code of ${p.text}`} viewBox={`0 0 ${n} ${n}`} width="180" height="180"><rect width={n} height={n} fill="#fff" />{cells.flatMap((row, y) => row.map((dark, x) => dark && <rect x={x + 4} y={y + 4} width="1.03" height="1.03" fill="#000" />))}</svg>;
}
