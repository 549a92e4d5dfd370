"""The built-in task for tables: CSV or Parquet, one client for each site, or one file for each client.

What leaves a site, beside models and metrics, is one summary of the training rows that it has in the first round:

- the number of rows;
- of a column of numbers: how many there are, how many are missing, their sum, and the sum of the squares of their
  deviations from the site's own mean;
- of a column of categories: the labels with their counts, and how many are missing;
- of the target: the labels of the classes with their counts, or for regression the same sums as of a column of numbers
  (both for a target of whole numbers with at most 20 different values, unless `kind` settles which it is);
- only if rows arrive by date: the earliest and the latest date of the site's rows.

Nothing else. Rows never leave a site, and of validation rows nothing does, except that the two dates may be theirs.
Labels are the words of the file: a column of names would give the names away. So a column of texts that looks like an
identifier is refused, unless it is listed in `categorical`. All members get to see the labels, and the means and
deviations over all sites; the coordinator sees the summaries.
"""
