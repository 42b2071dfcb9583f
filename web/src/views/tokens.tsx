/** Named tokens: made, listed, revoked. */
import { useState } from 'preact/hooks';
import { json } from '../api';
import type { Token } from '../schema';
import { attempt } from '../state';
import { age, Button, copy, Dialog, Field, sure } from '../ui';

/** The time until then, for people. */
const left = (iso: string | null) => {
  if (!iso) return 'never';
  const s = Math.max(0, (new Date(iso).getTime() - Date.now()) / 1000);
  return s < 3600 ? `in ${Math.ceil(s / 60)} min` : s < 86400 ? `in ${Math.round(s / 3600)} h` : `in ${Math.round(s / 86400)} d`;
};

export function Tokens(p: { first: Token[] }) {
  const [list, setList] = useState(p.first), [adding, setAdding] = useState(false);
  const load = async () => setList((await json('GET', '/v1/tokens')).tokens);
  const revoke = async (t: Token) => { if (await sure(`Revoke the token ${t.name}? Programs that use it are refused at once, and so are tokens that were made with it.`, 'Revoke')) attempt(async () => { await json('DELETE', `/v1/tokens/${t.name}`); await load(); }); };
  return (
    <section aria-labelledby="tokens">
      <div class="row"><h2 id="tokens">Tokens</h2><span class="grow" /><Button onClick={() => setAdding(true)}>New token</Button></div>
      <p>Programs use a token. Give each its own, so that you can revoke it alone; each may do everything. The first token is in the daemon's data directory.</p>
      {list.length > 0 && (
        <div class="table short" tabIndex={0} role="region" aria-label="Tokens"><table><thead><tr><th scope="col">Name</th><th scope="col">Made</th><th scope="col">Used</th><th scope="col">Ends</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
          <tbody>{list.map((t) => <tr key={t.name}><th scope="row">{t.name}</th><td>{age(t.createdAt)} ago</td><td>{t.lastUsedAt ? `${age(t.lastUsedAt)} ago` : 'never'}</td><td>{left(t.expiresAt)}</td><td class="row end"><Button aria-label={`Revoke ${t.name}`} onClick={() => revoke(t)}>Revoke</Button></td></tr>)}</tbody></table></div>)}
      {adding && <NewToken onClose={() => { setAdding(false); attempt(load); }} />}
    </section>
  );
}

/** The value is here once, and nowhere else. */
function NewToken(p: { onClose: () => void }) {
  const [name, setName] = useState(''), [ttl, setTtl] = useState(''), [value, setValue] = useState<string>(), [problem, setProblem] = useState(''), [said, setSaid] = useState('');
  const make = async () => {
    try { setValue((await json('POST', '/v1/tokens', { name, ...(ttl && { ttl }) })).token); } catch (e) { setProblem((e as Error).message); }
  };
  if (value !== undefined) return (
    <Dialog key="value" title={`The token ${name}`} onClose={p.onClose}>
      <p>Copy it now: it is not shown again.</p>
      <code class="value" aria-label="Value">{value}</code>
      <div class="row end"><span role="status">{said}</span><Button kind="main" autofocus onClick={async () => setSaid(await copy(value) ? 'Copied.' : 'This browser does not let the page copy: select the value.')}>Copy</Button><Button onClick={p.onClose}>Close</Button></div>
    </Dialog>
  );
  return (
    <Dialog key="new" title="New token" onClose={p.onClose}>
      <form class="stack" onSubmit={(e) => { e.preventDefault(); make(); }}>
        <Field label="Name"><input autofocus required value={name} onInput={(e) => setName(e.currentTarget.value)} /></Field>
        <Field label="Valid for" hint="12h, 30d; empty: until it is revoked"><input value={ttl} onInput={(e) => setTtl(e.currentTarget.value)} /></Field>
        {problem && <p role="alert">{problem}</p>}
        <div class="row end"><Button onClick={p.onClose}>Cancel</Button><Button kind="main" type="submit">Make</Button></div>
      </form>
    </Dialog>
  );
}
