/** What is below the charts of the page Host. It is shown when all of it is known, so that no part moves another one. */
import { useEffect, useState } from 'preact/hooks';
import { json } from '../api';
import type { AuditRecord, ConsoleSessionEntry, Image, Token } from '../schema';
import { attempt, features, recent } from '../state';
import { clock, Loading } from '../ui';
import { Access } from './access';
import { BoxName } from './boxes';
import { Checks } from './checks';
import { Images } from './images';
import { Tokens } from './tokens';

interface First { images: Image[] | undefined; tokens: Token[] | undefined; sessions: ConsoleSessionEntry[]; audit: AuditRecord[] | undefined }
const list = async <T,>(feature: string, path: string, name: string): Promise<T[] | undefined> => (features.value.has(feature) ? (await json('GET', path))[name] : undefined);

export function Parts() {
  const [first, setFirst] = useState<First>();
  useEffect(() => attempt(async () => {
    const [images, tokens, audit, { sessions }] = await Promise.all([list<Image>('images', '/v1/images', 'images'), list<Token>('tokens', '/v1/tokens', 'tokens'), list<AuditRecord>('audit', '/v1/audit', 'records'), json('GET', '/v1/console/sessions')]);
    setFirst({ images, tokens, audit, sessions });
  }), []);
  if (!first) return <Loading />;
  return (
    <>
      {first.images && <Images first={first.images} />}
      {first.tokens && <Tokens first={first.tokens} />}
      <Access first={first.sessions} audit={first.audit} />
      <h2>Events</h2>
      {!recent.value.length ? <p>Nothing has happened yet.</p> : <ul class="events">{recent.value.slice(0, 100).map((e) => <li><time>{clock(e.time)}</time> <BoxName id={e.sandbox ?? ''} /> {e.type}{e.reason ? `: ${e.reason}` : ''}</li>)}</ul>}
      {features.value.has('checks') && <Checks />}
    </>
  );
}
