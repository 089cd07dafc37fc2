"""Root causes of held memory that belong to no single suspect: private pools, frees that wait, caches held twice."""
