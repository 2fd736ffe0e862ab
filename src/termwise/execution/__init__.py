"""Where the rows of the design matrix live: in this process, on a Dask cluster, on a device."""
