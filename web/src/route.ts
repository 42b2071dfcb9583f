/** Where we are, kept in the part of the address behind '#': #/, #/host, #/box/ID/Tab. */
import { signal } from '@preact/signals';

export interface Route { page: 'boxes' | 'box' | 'host'; id?: string; tab?: string }

function read(): Route {
  const [, page, id, tab] = location.hash.slice(1).split('/');
  if (page === 'box' && id) return { page: 'box', id: decodeURIComponent(id), tab: tab ?? '' };
  return { page: page === 'host' ? 'host' : 'boxes' };
}

export const route = signal<Route>(read());
addEventListener('hashchange', () => { route.value = read(); });
export const go = (path: string) => { location.hash = path; };
export const boxLink = (id: string, tab = '') => `#/box/${encodeURIComponent(id)}${tab && `/${tab}`}`;
