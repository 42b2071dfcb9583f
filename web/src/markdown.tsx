/** Enough Markdown to read a README, as elements: nothing of it is ever HTML. */
import type { JSX } from 'preact';

function inline(text: string): (JSX.Element | string)[] {
  const out: (JSX.Element | string)[] = [];
  const pattern = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*]+)\*|\[([^\]]+)\]\(([^)\s]+)\)/g;
  let at = 0;
  for (const m of text.matchAll(pattern)) {
    out.push(text.slice(at, m.index));
    if (m[1] !== undefined) out.push(<code>{m[1]}</code>);
    else if (m[2] !== undefined) out.push(<strong>{m[2]}</strong>);
    else if (m[3] !== undefined) out.push(<em>{m[3]}</em>);
    else out.push(/^https?:\/\//.test(m[5]!) ? <a href={m[5]} target="_blank" rel="noopener noreferrer">{m[4]}</a> : m[4]!);
    at = m.index! + m[0].length;
  }
  out.push(text.slice(at));
  return out;
}

export function Markdown(p: { text: string }) {
  const out: JSX.Element[] = [], lines = p.text.split('\n');
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i]!, title = /^(#{1,6}) (.*)/.exec(line);
    if (line.startsWith('```')) {
      const code: string[] = [];
      while (++i < lines.length && !lines[i]!.startsWith('```')) code.push(lines[i]!);
      out.push(<pre>{code.join('\n')}</pre>);
    } else if (title) {
      const Tag = `h${title[1]!.length}` as 'h1';
      out.push(<Tag>{inline(title[2]!)}</Tag>);
    } else if (/^[-*] /.test(line)) {
      const items = [line];
      while (/^[-*] /.test(lines[i + 1] ?? '')) items.push(lines[++i]!);
      out.push(<ul>{items.map((x) => <li>{inline(x.slice(2))}</li>)}</ul>);
    } else if (line.startsWith('|')) {
      const rows = [line];
      while ((lines[i + 1] ?? '').startsWith('|')) rows.push(lines[++i]!);
      out.push(<table><tbody>{rows.filter((r) => !/^\|[\s:|-]+\|?$/.test(r)).map((r) => <tr>{r.split('|').slice(1, -1).map((c) => <td>{inline(c.trim())}</td>)}</tr>)}</tbody></table>);
    } else if (line.trim()) {
      const text = [line];
      while ((lines[i + 1] ?? '').trim() && !/^(#|```|[-*] |\|)/.test(lines[i + 1]!)) text.push(lines[++i]!);
      out.push(<p>{inline(text.join(' '))}</p>);
    }
  }
  return <div class="markdown">{out}</div>;
}
