/** A line over time (uPlot, loaded when the first chart is shown). */
import { useEffect, useRef } from 'preact/hooks';
import { useDark } from './ui';

export function Chart(p: { title: string; times: number[]; values: number[] }) {
  const place = useRef<HTMLDivElement>(null), plot = useRef<any>(undefined);
  const dark = useDark(), data = [p.times.map((t) => t / 1000), p.values];
  useEffect(() => {
    let gone = false, sizes: ResizeObserver | undefined;
    (async () => {
      const { default: UPlot } = await import('./uplot');
      if (gone) return;
      const css = getComputedStyle(place.current!), ink = css.getPropertyValue('--quiet'), line = css.getPropertyValue('--accent'), grid = css.getPropertyValue('--line');
      const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
      plot.current = new UPlot({ width: place.current!.clientWidth || 300, height: 160, cursor: { show: true }, legend: { show: false }, axes: [axis, { ...axis, size: 56 }], scales: { y: { range: (_: any, __: number, max: number) => [0, max > 0 ? max * 1.1 : 1] } }, series: [{}, { stroke: line, width: 1.5, fill: `${line.trim()}22` }] } as any, data as any, place.current!);
      sizes = new ResizeObserver(() => { if (place.current?.clientWidth) plot.current.setSize({ width: place.current.clientWidth, height: 160 }); });
      sizes.observe(place.current!);
    })();
    return () => { gone = true; sizes?.disconnect(); plot.current?.destroy(); plot.current = undefined; };
  }, [dark]); // its colours are those of the scheme
  useEffect(() => { plot.current?.setData(data); });
  const last = p.values.at(-1);
  return <figure class="chart" data-points={p.values.length}><figcaption>{p.title}{last !== undefined && <strong> {last.toFixed(last < 10 && !Number.isInteger(last) ? 2 : 0)}</strong>}</figcaption><div ref={place} role="img" aria-label={`${p.title}: ${last ?? 'nothing yet'}`} /></figure>;
}
