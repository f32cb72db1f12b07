/* A file that knows nothing of shared memory, and whose variables are shared all the same. */
int theirs[4] = {1, 2, 3, 4};
int theirs_zeroed[3000];
int theirs_count;
int *theirs_pointer = theirs;
static const char *name = "nobody";

const char **theirs_name(void)
{
    return &name;
}
