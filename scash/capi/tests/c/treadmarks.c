/* A program as TreadMarks has them: compat/Tmk.h over scash.h. */
#include "treadmarks.h"
#include <stdint.h>
#include <time.h>

#define N 100
#define SWEEPS 9

/* Private variables that ranks distribute: with a value, without, and large. */
static double (*grid)[N];
static struct settings {
    int sweeps;
    double edge;
    char name[12];
} settings = {-1, -1, "none"};
static unsigned char table[100000];
static int number = -1;
char letter = 'a';

/* The pattern of all such programs: one rank allocates, and all have the pointer behind the barrier. */
static void sweep(void)
{
    static double before[N][N], after[N][N];
    unsigned from, to;
    if (Tmk_proc_id == 0) {
        struct settings mine = {SWEEPS, 64, "sweeps"};
        settings = mine;
        grid = Tmk_malloc(2 * sizeof before);
        CHECK((uintptr_t)grid % Tmk_page_size == 0);
        memset(grid, 0, 2 * sizeof before);
        for (int i = 0; i < N; i++)
            grid[0][i] = grid[N][i] = settings.edge;
        Tmk_distribute((char *)&grid, sizeof grid);
        Tmk_distribute((char *)&settings, sizeof settings);
    }
    Tmk_barrier(0);
    CHECK(settings.sweeps == SWEEPS && settings.edge == 64 && strcmp(settings.name, "sweeps") == 0);
    from = 1 + (N - 2) * Tmk_proc_id / Tmk_nprocs;
    to = 1 + (N - 2) * (Tmk_proc_id + 1) / Tmk_nprocs;
    for (int sweep = 0; sweep < settings.sweeps; sweep++) {
        double(*old)[N] = grid + sweep % 2 * N, (*new)[N] = grid + (sweep + 1) % 2 * N;
        for (unsigned i = from; i < to; i++)
            for (int j = 1; j < N - 1; j++)
                new[i][j] = (old[i - 1][j] + old[i + 1][j] + old[i][j - 1] + old[i][j + 1]) / 4;
        Tmk_barrier((unsigned)sweep);
    }
    for (int i = 0; i < N; i++)
        before[0][i] = after[0][i] = 64;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                after[i][j] = (before[i - 1][j] + before[i + 1][j] + before[i][j - 1] + before[i][j + 1]) / 4;
        memcpy(before, after, sizeof before);
    }
    CHECK(memcmp(grid + SWEEPS % 2 * N, before, sizeof before) == 0);
    Tmk_barrier(0);
    if (Tmk_proc_id == Tmk_nprocs - 1)
        Tmk_free(grid);
}

/* What has a page or more begins at one, and a rank frees what it likes. */
static void sizes(void)
{
    for (size_t size = 1; size < 100000; size = 2 * size + 1) {
        char *p = Tmk_malloc(size), *q = Tmk_malloc(size);
        if (size >= Tmk_page_size)
            CHECK((uintptr_t)p % Tmk_page_size == 0 && (uintptr_t)q % Tmk_page_size == 0);
        memset(p, 1, size);
        memset(q, 2, size);
        CHECK(p[0] == 1 && p[size - 1] == 1);
        Tmk_free(p);
        Tmk_free(q);
    }
}

/* Every barrier brings what one rank or another has distributed since the one before, and nothing older. */
static void distribute_often(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        unsigned from = (unsigned)round / 2 % Tmk_nprocs;
        int mine = (int)Tmk_proc_id == round ? -3 : -2;
        number = mine;
        if (Tmk_proc_id == from && round % 4 != 3) {
            memset(table, round + 1, sizeof table);
            number = round + 1000;
            Tmk_distribute(&number, sizeof number);
            number = round;
            Tmk_distribute(&number, sizeof number);
            Tmk_distribute(table + 1, sizeof table - 1);
            /* The others get what it was when it was distributed. */
            number = -4;
        } else
            memset(table, 0, sizeof table);
        if (Tmk_proc_id == Tmk_nprocs - 1) {
            letter = (char)('b' + round);
            Tmk_distribute(&letter, 1);
        }
        Tmk_barrier((unsigned)round);
        CHECK(letter == 'b' + round);
        if (round % 4 == 3)
            CHECK(number == mine && table[1] == 0 && table[sizeof table - 1] == 0);
        else if (Tmk_proc_id == from)
            CHECK(number == -4 && table[0] == round + 1);
        else {
            CHECK(number == round && table[0] == 0);
            for (size_t i = 1; i < sizeof table; i++)
                CHECK(table[i] == round + 1);
        }
    }
}

/* Both files use the same locks. */
static void locks(void)
{
    static int *total;
    make_counts();
    if (Tmk_proc_id == 0) {
        total = Tmk_malloc(sizeof *total);
        *total = 0;
        Tmk_distribute((char *)&total, sizeof total);
    }
    Tmk_barrier(1);
    for (int round = 0; round < 2; round++) {
        add(0, 50);
        Tmk_lock_acquire(TMK_LOCKS - 1);
        *total += (int)Tmk_proc_id + 1;
        Tmk_lock_release(TMK_LOCKS - 1);
    }
    Tmk_barrier(1);
    CHECK(*total == (int)(Tmk_nprocs * (Tmk_nprocs + 1)));
    check_counts(2 * (int)Tmk_nprocs);
}

int main(int argc, char **argv)
{
    Tmk_startup(argc, argv);
    CHECK(Tmk_proc_id == (unsigned)dsm_rank() && Tmk_nprocs == (unsigned)dsm_size());
    same_rank(Tmk_proc_id, Tmk_nprocs);
    sizes();
    sweep();
    distribute_often();
    locks();
    printf("rank %u of %u is through\n", Tmk_proc_id, Tmk_nprocs);
    Tmk_exit(0);
}
