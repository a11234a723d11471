"""What people look at: tables, figures, pages and exports of runs, and what makes a run and writes it in one go."""
