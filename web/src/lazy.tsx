/** A view whose code is loaded when it is first shown. */
import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { failed } from './state';
import { Loading } from './ui';

export function lazy<P>(load: () => Promise<ComponentType<P>>) {
  let found: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [, setReady] = useState(Boolean(found));
    useEffect(() => { if (!found) load().then((c) => { found = c; setReady(true); }).catch(failed); }, []);
    const View = found as any;
    return View ? <View {...props} /> : <Loading />;
  };
}
