export const outside = {};
