import { render } from 'preact';
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import '@xterm/xterm/css/xterm.css';
import 'uplot/dist/uPlot.min.css';
import './style.css';
import { json, whenSignedOut } from './api';
import { Palette } from './palette';
import { go, route } from './route';
import { connected, failed, notices, run } from './state';
import { Button, Field, QuestionDialog } from './ui';
import { Boxes } from './views/boxes';
import { BoxView } from './views/box';
import { Host } from './views/host';

const signedIn = signal<boolean | undefined>(undefined);

/** A link of `atoll console` has its code behind the '#', which is never sent anywhere. */
async function begin(): Promise<void> {
  const code = /^#login=([a-z0-9]+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, '', location.pathname);
  try {
    if (code) await json('POST', '/v1/console/session', { code });
    const session = await json('GET', '/v1/console/session');
    signedIn.value = Boolean(session.expiresAt);
  } catch (error) {
    if (code) failed(error);
    signedIn.value = false;
  }
}

function SignIn() {
  const [token, setToken] = useState('');
  const send = async (e: Event) => {
    e.preventDefault();
    try {
      await json('POST', '/v1/console/session', { token });
      signedIn.value = true;
    } catch (error) {
      failed(error);
    }
  };
  return (
    <main class="signin">
      <h1>Atoll</h1>
      <p>Run <code>atoll console</code> on the machine of the daemon and open its link, or sign in with the token.</p>
      <form onSubmit={send}>
        <Field label="Token"><input type="password" autocomplete="current-password" required value={token} onInput={(e) => setToken(e.currentTarget.value)} /></Field>
        <Button kind="main" type="submit">Sign in</Button>
      </form>
      <p><small>The token is in <code>/var/lib/atoll/token</code>.</small></p>
    </main>
  );
}

async function signOut(): Promise<void> {
  await json('DELETE', '/v1/console/session').catch(() => {});
  location.reload();
}

function Page() {
  useEffect(() => { run(); }, []);
  const r = route.value;
  return (
    <>
      <a class="skip" href="#content" onClick={(e) => { e.preventDefault(); document.getElementById('content')?.focus(); }}>To the content</a>
      <header>
        <a class="brand" href="#/">Atoll</a>
        <nav aria-label="Main">
          <a href="#/" aria-current={r.page !== 'host' ? 'page' : undefined}>Boxes</a>
          <a href="#/host" aria-current={r.page === 'host' ? 'page' : undefined}>Host</a>
        </nav>
        <span class="grow" />
        {!connected.value && <span class="offline" role="status">Reconnecting …</span>}
        <Button class="quiet" aria-label="Command palette" onClick={() => window.dispatchEvent(new CustomEvent('palette'))}>Ctrl K</Button>
        <Button class="quiet" onClick={signOut}>Sign out</Button>
      </header>
      <main id="content" tabIndex={-1}>
        {r.page === 'box' ? <BoxView key={r.id} id={r.id!} tab={r.tab} /> : r.page === 'host' ? <Host /> : <Boxes />}
      </main>
      <Palette />
    </>
  );
}

function App() {
  useEffect(() => { whenSignedOut(() => { signedIn.value = false; }); begin(); }, []);
  return (
    <>
      {signedIn.value === undefined ? null : signedIn.value ? <Page /> : <SignIn />}
      <QuestionDialog />
      <div class="notices" role="status" aria-live="polite">{notices.value.map((n) => <p key={n.id} class={n.bad ? 'bad' : ''}>{n.text}</p>)}</div>
    </>
  );
}

// A dialog has its own Escape, and so has a field.
addEventListener('keydown', (e) => { if (e.key === 'Escape' && route.value.page === 'host' && !document.querySelector('dialog[open]') && !(e.target as HTMLElement).closest?.('input, textarea, select')) go('/'); });
render(<App />, document.getElementById('app')!);
