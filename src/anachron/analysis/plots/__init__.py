"""What figures and charts are drawn with: looks, marks of matplotlib, traces of Plotly, and names in words."""
