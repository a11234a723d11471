"""The report page: `page_data` collects what it shows, `render` writes it as one HTML file."""
