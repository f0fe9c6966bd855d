/* SPDX-License-Identifier: Apache-2.0 */
/* Products, passes and the optimiser; every sum in one written order, so that equal inputs give
 * equal bits. */
#include "charlm_model.h"

#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

#include "charlm_text.h"

int batch_new(struct batch *b, size_t capacity)
{
    b->n = 0;
    b->capacity = capacity;
    b->context = calloc(capacity, sizeof *b->context);
    b->target = calloc(capacity, sizeof *b->target);
    b->x = calloc(capacity, sizeof *b->x);
    b->h = calloc(capacity, sizeof *b->h);
    b->p = calloc(capacity, sizeof *b->p);
    b->dh = calloc(capacity, sizeof *b->dh);
    b->dx = calloc(capacity, sizeof *b->dx);
    return b->context && b->target && b->x && b->h && b->p && b->dh && b->dx;
}

static void fill_uniform(real *w, size_t count, double limit, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        w[i] = (real)(limit * (2.0 * (double)(mix(seed + i) >> 11) / (double)(1ull << 53) - 1.0));
}

void weights_init(struct weights *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    fill_uniform(&w->wte[0][0], V * E, 0.5, mix(seed) + 1);
    fill_uniform(&w->w1[0][0], X * H, sqrt(3.0 / X) * 2, mix(seed) + 1000000);
    fill_uniform(&w->w2[0][0], H * V, sqrt(3.0 / H) * 0.5, mix(seed) + 2000000);
}

/* out (c) += a[0] b[0] (c) + a[1] b[1] (c) + ..: the inner loop of both products below. Four rows
 * at a time keep `out` in registers; the order of the additions is that of the rows, whatever the
 * width of the vector unit. */
static inline void add_rows(real *restrict out, const real *a, size_t a_stride,
                            const real *restrict b, size_t rows, size_t c)
{
    size_t fours = rows / 4 * 4;

    for (size_t r = 0; r < fours; r += 4, b += 4 * c) {
        real a0 = a[r * a_stride], a1 = a[(r + 1) * a_stride];
        real a2 = a[(r + 2) * a_stride], a3 = a[(r + 3) * a_stride];

        for (size_t i = 0; i < c; i++)
            out[i] =
                (((out[i] + a0 * b[i]) + a1 * b[c + i]) + a2 * b[2 * c + i]) + a3 * b[3 * c + i];
    }
    for (size_t r = fours; r < rows; r++, b += c)
        for (size_t i = 0; i < c; i++)
            out[i] += a[r * a_stride] * b[i];
}

/* out (n, c) += a (n, k) @ b (k, c) */
static inline void matmul(real *out, const real *a, const real *b, size_t n, size_t k, size_t c)
{
    for (size_t i = 0; i < n; i++)
        add_rows(out + i * c, a + i * k, 1, b, k, c);
}

/* out (k, c) += transpose of a (n, k) @ d (n, c): the gradient of a weight matrix */
static inline void matmul_ta(real *out, const real *a, const real *d, size_t n, size_t k, size_t c)
{
    for (size_t j = 0; j < k; j++)
        add_rows(out + j * c, a + j, k, d, n, c);
}

/* out (n, k) = d (n, c) @ transpose of b (k, c): the gradient of a layer's input. Eight partial
 * sums, a fixed order. */
static inline void matmul_tb(real *restrict out, const real *restrict d, const real *restrict b,
                             size_t n, size_t k, size_t c)
{
    for (size_t i = 0; i < n * k; i++) {
        const real *drow = d + i / k * c, *brow = b + i % k * c;
        real s[8] = { 0 };

        for (size_t j = 0; j < c; j += 8) /* c is a multiple of 8 in every call */
            for (size_t l = 0; l < 8; l++)
                s[l] += drow[j + l] * brow[j + l];
        out[i] = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
    }
}

/* p (V): logits become probabilities. Returns -log p[target]. */
static double softmax_loss(real *p, uint8_t target)
{
    real top = p[0], sum = 0;

    for (size_t v = 1; v < V; v++)
        top = p[v] > top ? p[v] : top;
    for (size_t v = 0; v < V; v++)
        sum += p[v] = exp(p[v] - top);
    for (size_t v = 0; v < V; v++)
        p[v] /= sum;
    return -log((double)p[target] + 1e-30);
}

double forward(const struct weights *w, struct batch *b)
{
    double loss = 0;

    for (size_t i = 0; i < b->n; i++) {
        for (size_t t = 0; t < T; t++)
            memcpy(b->x[i] + t * E, w->wte[b->context[i][t]], sizeof w->wte[0]);
        memcpy(b->h[i], w->b1, sizeof w->b1);
        memcpy(b->p[i], w->b2, sizeof w->b2);
    }
    matmul(b->h[0], b->x[0], w->w1[0], b->n, X, H);
    for (real *h = b->h[0]; h < b->h[b->n]; h++)
        *h = tanh(*h);
    matmul(b->p[0], b->h[0], w->w2[0], b->n, H, V);
    for (size_t i = 0; i < b->n; i++)
        loss += softmax_loss(b->p[i], b->target[i]);
    return loss;
}

void backward_output(struct weights *g, struct batch *b)
{
    memset(g, 0, sizeof *g);
    for (size_t i = 0; i < b->n; i++) {
        b->p[i][b->target[i]] -= 1;
        for (size_t v = 0; v < V; v++) {
            b->p[i][v] /= (real)b->n; /* the gradient of the mean loss, not of the sum */
            g->b2[v] += b->p[i][v];
        }
    }
    matmul_ta(g->w2[0], b->h[0], b->p[0], b->n, H, V);
}

void backward_hidden(const struct weights *w, struct weights *g, struct batch *b)
{
    matmul_tb(b->dh[0], b->p[0], w->w2[0], b->n, H, V);
    for (size_t i = 0; i < b->n; i++)
        for (size_t j = 0; j < H; j++) {
            b->dh[i][j] *= 1 - b->h[i][j] * b->h[i][j]; /* the derivative of tanh */
            g->b1[j] += b->dh[i][j];
        }
    matmul_ta(g->w1[0], b->x[0], b->dh[0], b->n, X, H);
}

void backward_embedding(const struct weights *w, struct weights *g, struct batch *b)
{
    matmul_tb(b->dx[0], b->dh[0], w->w1[0], b->n, X, H);
    for (size_t i = 0; i < b->n; i++)
        for (size_t t = 0; t < T; t++)
            for (size_t e = 0; e < E; e++)
                g->wte[b->context[i][t]][e] += b->dx[i][t * E + e];
}

/* Only + - * / and sqrt, which IEEE 754 rounds in one defined way: equal gradients give equal bits
 * on every machine. */
void adam_apply(struct adam *adam, struct weights *w, const struct weights *g)
{
    const double rate = 0.002;
    const real beta1 = (real)0.9, beta2 = (real)0.99;
    real *p = &w->wte[0][0], *m = &adam->m.wte[0][0], *v = &adam->v.wte[0][0];
    const real *d = &g->wte[0][0];

    adam->powers[0] *= beta1;
    adam->powers[1] *= beta2;
    real scale = (real)(rate / (1 - adam->powers[0])), unbias = (real)(1 / (1 - adam->powers[1]));

    for (size_t i = 0; i < WEIGHT_COUNT; i++) {
        m[i] = beta1 * m[i] + (1 - beta1) * d[i];
        v[i] = beta2 * v[i] + (1 - beta2) * d[i] * d[i];
        p[i] -= scale * m[i] / (sqrt(v[i] * unbias) + (real)1e-8);
    }
}
