/* An empty library, to measure what preloading itself costs. */
int hakmem_test_nothing;
