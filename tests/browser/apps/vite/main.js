import { message } from './message.js';
import './style.css';

const show = (text) => { document.getElementById('app').textContent = text; };
show(message);
import.meta.hot.accept('./message.js', (changed) => show(changed.message));
