/** LaTeX as a formula: KaTeX, loaded with the first one, makes MathML elements, which browsers draw themselves. Text that it cannot read stays text. */
import { useEffect, useRef } from 'preact/hooks';
import { failed } from './state';

/** Without the dollars around it. */
const bare = (text: string) => text.trim().replace(/^\$\$?([^]*?)\$\$?$/, '$1').replace(/^\\[[(]([^]*)\\[\])]$/, '$1').replace(/^\\displaystyle\b/, '');

export function Formula(p: { text: string }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    import('katex').then(({ default: katex }) => {
      if (place.current) katex.render(bare(p.text), place.current, { output: 'mathml', displayMode: true, throwOnError: false, trust: false, maxExpand: 500, maxSize: 20, strict: 'ignore' });
    }).catch(failed);
  }, [p.text]);
  return <div class="formula" ref={place}>{p.text}</div>;
}
