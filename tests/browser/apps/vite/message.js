export const message = 'before';
