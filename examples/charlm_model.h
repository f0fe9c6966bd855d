/* SPDX-License-Identifier: Apache-2.0 */
/* The model of charlm: it guesses the next byte of a text from the T bytes before it (an MLP over
 * embeddings, after Bengio et al., 2003). Forward pass, backward pass and Adam, written out by
 * hand, with the shape of every array beside it. Knows nothing of other members. */
#ifndef CHARLM_MODEL_H
#define CHARLM_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* The numeric gradient check is sharper in double precision; a second build of this file uses
 * it. */
#ifdef CHARLM_DOUBLE
typedef double real;
#define REAL_DTYPE SPOTNIK_F64
#else
typedef float real;
#define REAL_DTYPE SPOTNIK_F32
#endif

enum {
    V = 256,   /* vocabulary: bytes */
    T = 16,    /* bytes of context */
    E = 16,    /* numbers that stand for one byte */
    X = T * E, /* input of the hidden layer: the embeddings of the context, side by side */
    H = 256,   /* hidden units */
};

/* All parameters. Gradients and both moments of Adam have the same shape, so they use the same
 * struct. */
struct weights {
    real wte[V][E]; /* embedding of each byte */
    real w1[X][H], b1[H];
    real w2[H][V], b2[V];
};

enum { WEIGHT_COUNT = sizeof(struct weights) / sizeof(real) };

/* What a mini-batch of n samples leaves behind on its way through the model. */
struct batch {
    size_t n, capacity;
    uint8_t (*context)[T]; /* (n, T) bytes */
    uint8_t *target;       /* (n)    the byte that follows */
    real (*x)[X];          /* (n, X) embeddings */
    real (*h)[H];          /* (n, H) hidden activations */
    real (*p)[V];          /* (n, V) logits, then probabilities, then their gradient */
    real (*dh)[H];         /* (n, H) */
    real (*dx)[X];         /* (n, X) */
};

/* The optimiser's memory. It is part of the replica: a joiner that started from zero moments would
 * drift away. */
struct adam {
    struct weights m, v;
    /* beta1^t, beta2^t, multiplied up step by step: pow() may differ between C libraries */
    double powers[2];
};

/* A function of the seed alone, so the members agree on the first weights without a word. */
void weights_init(struct weights *w, uint64_t seed);

/* Room for that number of samples. 0: out of memory. */
int batch_new(struct batch *b, size_t capacity);

/* Returns the sum of the losses of the n samples. */
double forward(const struct weights *w, struct batch *b);

/* The backward pass comes in three parts, so that each part's gradients can travel while the next
 * part computes. All of them leave zeros in g when n = 0: that is what a member without samples
 * contributes. */
void backward_output(struct weights *g, struct batch *b);
void backward_hidden(const struct weights *w, struct weights *g, struct batch *b);
void backward_embedding(const struct weights *w, struct weights *g, struct batch *b);

/* One step of the optimiser: equal gradients give equal bits on every machine. */
void adam_apply(struct adam *adam, struct weights *w, const struct weights *g);

#endif
