"""Downloads of dumps and page views, and live looks at the site."""
