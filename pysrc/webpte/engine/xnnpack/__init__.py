"""The lowering of XNNPACK delegates to graphs of webpte's operators."""
