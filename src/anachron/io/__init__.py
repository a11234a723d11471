"""Everything outside the process: files, stores, jobs, workers, servers."""
