/*
 * warm.h - how the warden learns that boxes use JavaScript: numbers in the pipe of proto/zygote.h, where a context's
 * serial number stands otherwise. An agent sends each of them once, with the first such context of its box.
 */
#pragma once

#define WARM_JAVASCRIPT 0xfffffffeu
#define WARM_TYPESCRIPT 0xfffffffdu
