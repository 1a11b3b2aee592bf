"""`python -m trt_workbench`: as `trtw`."""

from trt_workbench.main import main

if __name__ == "__main__":
    main()
